"""How figures look, for reports of studies and of live experiments alike. Importing this loads no matplotlib."""
