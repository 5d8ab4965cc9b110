"""The model of a flow: its fields, its parts and the rules between them."""
