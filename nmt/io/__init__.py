"""Files and folders: written atomically, replaced by one rule, locked, recognised by their sha256."""
