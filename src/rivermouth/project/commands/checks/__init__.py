"""Checks of a project and its environment: the doctor, the storage, the health of flows, sample records."""
