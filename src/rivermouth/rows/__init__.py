"""Pure rules: frames or plain values in and out. Nothing here writes, collects or opens a session."""
