"""Cross-view graph consistency learning."""
