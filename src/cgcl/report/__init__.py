"""Pictures and pages: one self-contained HTML file per run, drawn from its results."""
