// Package embed runs a NATS server with JetStream inside this process, for
// `tailrace up`: one machine, one command, files that stay.
//
//	srv, err := embed.Start(ctx, embed.Config{StoreDir: "data/nats"})
//	if err != nil {
//		return err // one sentence for the person who started it
//	}
//	defer srv.Shutdown(context.Background())
//	nc, err := nats.Connect("", srv.InProcess())
//
// You owe a Shutdown, after your connections are closed. A process that dies
// without it loses nothing that was acknowledged: the server hands each
// message to the operating system before it does, and syncs files to the disk
// every SyncInterval, so that only a power cut may cost the last of them.
//
// One process owns a store directory at a time. Two servers on the same files
// would each write its own end of every stream over the other's, so Start
// takes a lock in the directory first, and the kernel gives it back when the
// process ends, however it ends.
package embed
