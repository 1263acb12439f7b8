// Package ingestion is what the two sides of the ingest of runs have in common: internal/jsingest stores the lines of a run, and the HTTP routes of internal/ingest
// and the command publish read them. agents/httpagent reads the responses of agents with Lines too. It has no I/O besides the io.Reader of a body.
package ingestion
