// Package natssource is the projector's durable firehose: one pull consumer per
// partition, explicit acknowledgements, one active owner.
//
//	source, err := natssource.New(js, natssource.Config{Partition: 0})
//	runner, err := projector.NewRunner(source, store, log, projector.Config{})
//	err = runner.Run(ctx)
//
// Several processes may run a Source of the same partition. The server pins one
// of them and sends it everything; when it has been silent for Takeover another
// one gets the partition, at once when it ended in good order. The new owner has
// the consumer set back to its floor of acknowledgements, so that it gets what the
// old one had and did not save now, and not after AckWait. What then comes twice,
// or mixed with newer records, changes nothing: the Runner applies a record only
// when it is the next one.
//
// A Source outlives an absent server, a connection that breaks and a consumer
// that somebody deletes: it makes it again at its last known floor. A bucket
// that was deleted and made again is another bucket, and what was acknowledged is
// not in it. The consumer carries the name of the bucket's life; in another one
// it is made anew at the start of the log, and Run ends with ErrNewBucket,
// because its Runner remembers what it has saved:
//
//	for {
//		err := newRunner().Run(ctx)
//		if !errors.Is(err, natssource.ErrNewBucket) {
//			return err
//		}
//	}
//
// Messages that are no records are counted, reported, acknowledged and passed.
package natssource
