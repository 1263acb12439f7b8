// Package shares divides the partitions of the log among the processes that work on them.
//
// Each process has a lease, which it renews, and works on the partitions that Owners gives it among the processes whose leases hold:
//
//	err := shares.Run(ctx, shares.Config{
//		Member: name, Partitions: 16, Members: leases, Lease: 6 * time.Second, Interval: 1500 * time.Millisecond,
//		Work: func(ctx context.Context, partition int) error { … },
//	})
//
// The division saves work and is not mutual exclusion: processes learn at different times who is there, so two may work on one partition, or none for a
// moment. Work must be correct when it runs twice. Docs: ADR 0037.
package shares
