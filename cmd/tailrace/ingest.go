package main

import (
	"errors"

	"github.com/tailrace/tailrace/internal/dialects"
	"github.com/tailrace/tailrace/internal/jsingest"
	"github.com/tailrace/tailrace/producers"
	"github.com/tailrace/tailrace/sseedge/ingest"
)

// The values of the setting INGEST.
const (
	ingestOn  = "on"
	ingestOff = "off"
)

// mountIngest adds the paths through which agents write runs over HTTP.
func (f *httpServer) mountIngest() error {
	if f.b.cfg.Ingest != ingestOn {
		return nil
	}
	producer, err := f.b.producer()
	if err != nil {
		return err
	}
	reaper, err := f.b.reaper()
	if err != nil {
		return errors.Join(err, producer.Close())
	}
	runs := jsingest.New(producer, dialects.NewTranslator)
	runs.OnEnd(reaper.StartQueued)
	if _, err := ingest.New(f.edge, runs, ingest.Config{MaxRuns: f.b.cfg.limits.runs}); err != nil {
		return errors.Join(err, producer.Close())
	}
	f.writers = append(f.writers, producer)
	return nil
}

// closeProducers closes the producers of the ingest, after the last request.
func closeProducers(list []*producers.Producer) error {
	var errs []error
	for _, p := range list {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
