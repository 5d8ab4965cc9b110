"""How the values of records become columns: one room for each family of formats."""
