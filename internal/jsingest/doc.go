// Package jsingest writes the lines of a run, also those of its sub-agents, to the log, exactly once: it stores the position in the lines with each record, and
// skips the lines that the last record of a session has behind it. It implements ingestion.Runs for the routes of internal/ingest, and writes what the command
// publish reads.
package jsingest
