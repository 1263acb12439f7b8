package main

// reservedDescriptors are kept from the connections of clients: for NATS and the
// files of the built-in server, for probes and figures, for what the runtime
// opens. Without them an edge that is full could not even say so.
const reservedDescriptors = 256

// connectionLimit is how many connections the edge may have at once when nobody
// said: as many as it has descriptors, less the reserve, or half of them where
// that leaves more. 0 is no limit.
func connectionLimit(descriptors uint64) int {
	const plenty = 1 << 30
	if descriptors == 0 || descriptors > plenty {
		return 0
	}
	return int(max((descriptors+1)/2, descriptors-min(descriptors, reservedDescriptors)))
}
