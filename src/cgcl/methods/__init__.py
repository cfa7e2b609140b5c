"""Every way to predict links, CGCL among them, behind one protocol: a file each.

Import from the modules: `cgcl.methods.table` and the settings are free of heavy imports, the
others are not.
"""

__all__: list[str] = []
