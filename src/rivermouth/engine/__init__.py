"""Flows at work: one batch, one flow, many flows."""
