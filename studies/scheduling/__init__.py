"""From planned runs to finished run folders: Ray, machines, progress, stopping in order and going on."""
