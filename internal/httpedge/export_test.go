package httpedge

import "github.com/tailrace/tailrace/internal/hub"

// Routes are all that an Edge may serve, as "GET /v1/events".
func (e *Edge) Routes() []string { return e.router.Routes() }

// NewWithHub is New with a part of the configuration of the hub: sizes of memory and pages that are too small for production.
func NewWithHub(log Log, snapshots Snapshots, cfg Config, sizes hub.Config) (*Edge, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	hubConfig := cfg.hub()
	hubConfig.MaxMemory, hubConfig.PageBytes, hubConfig.IdleTTL, hubConfig.MaxReads = sizes.MaxMemory, sizes.PageBytes, sizes.IdleTTL, sizes.MaxReads
	return newEdge(log, snapshots, cfg, hubConfig)
}
