package bench

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// The assumptions of the table of large deployments.
const (
	busy           = 0.5    // share of the processors that is planned
	serverCores    = 16     // of a server
	edgeCores      = 4      // of an edge
	edgeReaders    = 10_000 // connections of an edge: the most that are measured, in idle and fanout-10000
	maxPartitions  = 64     // of a deployment
	partitionBytes = 424    // that an edge receives for each chunk of a partition, measured in feeds
	interestBytes  = 750    // that an edge receives for each chunk of a watched session, measured in feeds: 150 when a fifth of them is watched
)

// needs is what a deployment with three replicas needs.
type needs struct {
	Partitions  int
	Deployments int // more than one if the partitions are more than one may have
	Servers     int
	Edges       int
	Egress      float64 // of the servers to the edges, in bytes per second
	Possible    bool    // false if an edge cannot receive so many chunks
}

// needsOf returns what so many readers need while so many chunks are published in a second, and each chunk is delivered to one reader. With interest feeds and
// affinity an edge receives what its readers watch; with the feed of the partition it receives everything.
func (m costModel) needsOf(readers, chunks float64, interest bool) needs {
	c, e, fitted := m.Loaded, m.LoadedEdge, m.Servers[3]
	send := max(c.Send, fitted.Send) // the latter is fitted to more sizes
	n := needs{Possible: true, Partitions: ceil(chunks / loadedRate)}
	n.Deployments = ceil(float64(n.Partitions) / maxPartitions)
	capacity := edgeCores * busy * 1e6
	byReaders := ceil(readers / edgeReaders)
	perChunk := c.Store
	if interest {
		n.Edges = max(byReaders, ceil(chunks*(e.Receive+e.Deliver)/capacity))
		perChunk += send
		n.Egress = chunks * interestBytes
	} else {
		left := capacity - chunks*e.Receive // for deliveries
		if n.Possible = left > 0; !n.Possible {
			return n
		}
		n.Edges = max(byReaders, ceil(chunks*e.Deliver/left))
		perChunk += send * float64(n.Edges)
		n.Egress = chunks * partitionBytes * float64(n.Edges)
	}
	idle := max(0, fitted.IdlePartition) * float64(n.Partitions)
	if !interest {
		idle += max(0, fitted.IdleFeed) * float64(n.Partitions*n.Edges)
	}
	n.Servers = max(3*n.Deployments, ceil((chunks*perChunk+idle)/(serverCores*busy*1e6)))
	return n
}

func ceil(v float64) int { return max(1, int(math.Ceil(v))) }

// printNeeds writes the table of large deployments.
func printNeeds(out io.Writer, m costModel) error {
	fmt.Fprintf(out, "Large deployments, R3, computed and not measured. Each chunk is delivered to one reader; processors are at most %.0f %% busy, %d for a server and %d\n"+
		"for an edge; an edge has at most %d readers. With interest feeds a session is watched at one edge. A partition gets %d chunks\n"+
		"per second, at the cost above; a deployment has at most %d partitions.\n\n", 100*busy, serverCores, edgeCores, edgeReaders, loadedRate, maxPartitions)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "READERS\tCHUNKS/s\tFEED\tPARTITIONS\tDEPLOYMENTS\tSERVERS\tEDGES\tSERVERS TO EDGES, MB/s")
	for _, readers := range []float64{1e5, 1e6, 1e7} {
		for _, chunks := range []float64{1e4, 1e5, 1e6, 1e7} {
			for _, interest := range []bool{false, true} {
				feed := map[bool]string{false: "partition", true: "interest"}[interest]
				n := m.needsOf(readers, chunks, interest)
				if !n.Possible {
					continue
				}
				fmt.Fprintf(tw, "%.0e\t%.0e\t%s\t%d\t%d\t%d\t%d\t%.0f\n", readers, chunks, feed, n.Partitions, n.Deployments, n.Servers, n.Edges, n.Egress/1e6)
			}
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nWith the feed of the partition an edge receives every chunk: at most %.0f per second.\n", edgeCores*busy*1e6/m.LoadedEdge.Receive)
	return err
}
