"""The machine: its cores, memory and processor, the device that computes, and what was measured of it."""
