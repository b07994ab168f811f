"""Parts for blts: one file each, one entry point each (see pyproject.toml)."""
