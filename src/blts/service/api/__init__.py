"""The handlers of the HTTP API, a file for each subject. Each file has its lines of the table of routes at its end."""
