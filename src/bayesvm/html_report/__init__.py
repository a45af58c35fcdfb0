"""A report of a model for people: one page of HTML, and the tables behind it."""
