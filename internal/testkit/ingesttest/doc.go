// Package ingesttest generates runs of agents as the lines of an ingest, and compares them with the log, for tests that cut and repeat requests.
package ingesttest
