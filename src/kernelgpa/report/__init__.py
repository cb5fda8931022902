"""One self-contained page that shows a registration."""
