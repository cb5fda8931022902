"""Files of landmarks, meshes and poses: one reader and one writer a format."""
