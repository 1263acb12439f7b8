package main

// reservedDescriptors are not available to client connections: they serve NATS
// and the files of the built-in server, probes and metrics, and the runtime.
// Without them a full edge could not even report that it is full.
const reservedDescriptors = 256

// connectionLimit returns the limit of connections of the edge: the
// number of descriptors less the reserve, or half of the descriptors if that is
// more. 0 means no limit.
func connectionLimit(descriptors uint64) int {
	const plenty = 1 << 30
	if descriptors == 0 || descriptors > plenty {
		return 0
	}
	return int(max((descriptors+1)/2, descriptors-min(descriptors, reservedDescriptors)))
}
