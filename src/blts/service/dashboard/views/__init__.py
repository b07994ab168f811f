"""The pages: one file for each, a function from plain data to what its template shows. None of them knows HTTP or the database."""
