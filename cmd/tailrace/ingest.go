package main

// The values of the setting INGEST.
const (
	ingestOn  = "on"
	ingestOff = "off"
)
