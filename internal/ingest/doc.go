// Package ingest lets agents in any language write their runs over HTTP, exactly once: docs/reference/ingest.md.
//
//	POST /v1/sessions/{id}/runs                opens a run
//	POST /v1/sessions/{id}/runs/{run}/chunks   appends lines, and reports what is stored while it reads
//	GET  /v1/sessions/{id}/runs/{run}          what is stored
//	POST /v1/sessions/{id}/runs/{run}/end      and /fail, /pause, /cleanup change the state
//
// New mounts them on an Edge. The lines are stored by an ingestion.Runs:
//
//	producer, err := producers.New(js, producers.Config{Positions: positions})
//	server, err := ingest.New(edge, jsingest.New(producer, dialects), ingest.Config{})
//
// A request has no state on the edge that the next one needs, so requests of one run may go to different edges. All need the scope ingest.
package ingest
