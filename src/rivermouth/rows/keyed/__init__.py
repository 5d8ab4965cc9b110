"""The rows of keyed tables: order, history, partial updates."""
