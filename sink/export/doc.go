// Package export delivers rows to a receiver that keeps no position: traces over OTLP, and webhooks. The NATS server keeps the position instead, as that of a
// durable consumer of each partition.
//
//	x, err := export.New(js, export.Config{Name: "otlp", Select: ended, Deliver: client.Deliver})
//	err = x.Run(ctx)
//
// # Delivery
//
// A record is acknowledged when all of its rows, and all of those before it in its partition, are delivered or are dead letters. So each row is delivered at
// least once. Rows are delivered again if the program ends, or loses its partition to another one with its Name, between a delivery and the acknowledgement:
// usually those of the last second, at most those of MaxUnconfirmed records. A repeated row has the same ID and content, because rows are a function of the log.
//
// The rows of a tree of sessions are delivered in the order of the log: a row that must wait holds back the rows after it in its lane. When MaxUnconfirmed
// records wait, nothing more is read, and the log keeps the rest.
//
// # Failures
//
// A delivery that fails is tried again until GiveUp has passed since its rows were read; then they are dead letters, as are rows that the receiver refuses. The
// time begins again when the program starts. What retention has removed from the log before it was read is not delivered: the firehose logs and counts it.
package export
