"""What holds volumes and containers: Docker, or plain processes of this machine. Both keep one contract."""
