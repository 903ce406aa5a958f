"""Rules as people make them, and what is asked of each event: its filter, and the template of its inputs."""
