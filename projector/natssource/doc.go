// Package natssource is the projector's durable firehose: one pull consumer per
// partition, explicit acknowledgements, one active owner.
//
//	source, err := natssource.New(js, natssource.Config{Partition: 0})
//	runner, err := projector.NewRunner(source, store, log, projector.Config{})
//	err = runner.Run(ctx)
//
// Several processes may run a Source of the same partition. The server pins one
// of them and sends it everything; when it has been silent for Takeover another
// one gets the partition, at once when it ended in good order. What the old
// owner had and did not acknowledge comes back later, mixed with newer records:
// the Runner applies a record only when it is the next one, so order does not
// matter here.
//
// A Source outlives an absent server, a connection that breaks and a consumer
// that somebody deletes: it makes it again at its last known floor of
// acknowledgements, and what then comes twice changes nothing.
//
// Messages that are no records are counted, reported, acknowledged and passed.
package natssource
