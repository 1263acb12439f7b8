// Package embed runs a NATS server with JetStream in this process, for
// `tailrace up`.
//
//	srv, err := embed.Start(ctx, embed.Config{StoreDir: "data/nats"})
//	if err != nil {
//		return err // one sentence for the operator
//	}
//	defer srv.Shutdown(context.Background())
//	nc, err := nats.Connect("", srv.InProcess())
//
// The caller must call Shutdown after closing its connections. A process that
// exits without Shutdown loses no acknowledged message: the server passes each
// message to the operating system before the acknowledgement, and syncs files
// to disk every SyncInterval, so only a power failure can lose the most recent
// messages.
//
// One process at a time owns a store directory. Two servers on the same files
// would overwrite each other's streams, so Start takes a lock in the directory,
// which the kernel releases when the process ends, even if it is killed.
package embed
