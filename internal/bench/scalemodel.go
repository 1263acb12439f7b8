package bench

import "fmt"

// predictionBound is how much the predicted processor time of a size may differ from the measured one, as a share of the measured one.
const predictionBound = 0.25

// costModel is what a deployment costs, in microseconds of processor time.
type costModel struct {
	Servers map[int]serverCost // by replicas
	Edge    edgeCost

	// For each chunk when a partition gets loadedRate, three replicas.
	Loaded     serverCost // without the parts that the number of partitions determines
	LoadedEdge edgeCost
}

// serverCost is the cost of all servers together.
type serverCost struct {
	Store     float64 // of each chunk, on all replicas
	Send      float64 // of each chunk and edge that receives it
	Partition float64 // of each chunk for each partition: with the same load, fewer chunks share a write

	Idle          float64 // in a second
	IdlePartition float64 // in a second, for each partition
	IdleFeed      float64 // in a second, for each partition and edge: its consumer
}

// edgeCost is the cost of one edge.
type edgeCost struct {
	Receive float64 // of each chunk that the edge receives
	Deliver float64 // of each chunk and reader of it

	Idle          float64 // in a second
	IdlePartition float64 // in a second, for each partition that is followed
}

// fitCosts fits the model to the medians of sizes.
func fitCosts(medians map[size]usage, use []size, load scaleLoad) (m costModel, err error) {
	m.Servers = make(map[int]serverCost)
	for _, r := range []int{1, 3} {
		var perChunk, perSecond [][]float64
		var chunk, idle []float64
		for _, s := range use {
			if s.Replicas != r {
				continue
			}
			p, e := float64(s.Partitions), float64(s.Edges)
			perChunk, chunk = append(perChunk, []float64{1, e, p}), append(chunk, medians[s].Server)
			perSecond, idle = append(perSecond, []float64{1, p, p * e}), append(idle, medians[s].ServerIdle)
		}
		c, err := relativeFit(perChunk, chunk)
		if err != nil {
			return m, fmt.Errorf("servers, R%d: %w", r, err)
		}
		i, err := leastSquares(perSecond, idle)
		if err != nil {
			return m, fmt.Errorf("idle servers, R%d: %w", r, err)
		}
		m.Servers[r] = serverCost{Store: c[0], Send: c[1], Partition: c[2], Idle: i[0], IdlePartition: i[1], IdleFeed: i[2]}
	}
	var perSecond [][]float64
	var idle []float64
	for _, s := range use {
		perSecond, idle = append(perSecond, []float64{1, float64(s.Partitions)}), append(idle, medians[s].EdgeIdle)
	}
	i, err := leastSquares(perSecond, idle)
	if err != nil {
		return m, fmt.Errorf("idle edges: %w", err)
	}
	if m.Edge, err = fitEdge(medians, use, load); err != nil {
		return m, err
	}
	m.Edge.Idle, m.Edge.IdlePartition = i[0], i[1]
	m.Loaded, m.LoadedEdge, err = fitLoaded(medians, load)
	return m, err
}

// fitEdge fits the cost of an edge for each chunk.
func fitEdge(medians map[size]usage, use []size, load scaleLoad) (edgeCost, error) {
	var rows [][]float64
	var values []float64
	for _, s := range use {
		rows, values = append(rows, []float64{1, float64(load.readers) / float64(s.Edges)}), append(values, medians[s].Edge)
	}
	c, err := relativeFit(rows, values)
	if err != nil {
		return edgeCost{}, fmt.Errorf("edges: %w", err)
	}
	return edgeCost{Receive: c[0], Deliver: c[1]}, nil
}

// fitLoaded fits the costs of a partition that gets loadedRate.
func fitLoaded(medians map[size]usage, load scaleLoad) (serverCost, edgeCost, error) {
	var rows [][]float64
	var values []float64
	for _, s := range loaded {
		rows, values = append(rows, []float64{1, float64(s.Edges)}), append(values, medians[s].Server)
	}
	c, err := relativeFit(rows, values)
	if err != nil {
		return serverCost{}, edgeCost{}, fmt.Errorf("loaded servers: %w", err)
	}
	edge, err := fitEdge(medians, loaded, load)
	return serverCost{Store: c[0], Send: c[1]}, edge, err
}

// predict returns what the model says about a size.
func (m costModel) predict(s size, load scaleLoad) usage {
	c, p, e := m.Servers[s.Replicas], float64(s.Partitions), float64(s.Edges)
	return usage{
		Server:     c.Store + c.Send*e + c.Partition*p,
		ServerIdle: c.Idle + c.IdlePartition*p + c.IdleFeed*p*e,
		Edge:       m.Edge.Receive + m.Edge.Deliver*float64(load.readers)/e,
		EdgeIdle:   m.Edge.Idle + m.Edge.IdlePartition*p,
	}
}

// perChunk returns the processor time of the servers and of an edge for each chunk at the rate of the size, with the share of what they use without chunks.
func (u usage) perChunk(s size) (server, edge float64) {
	return u.Server + u.ServerIdle/float64(s.Rate), u.Edge + u.EdgeIdle/float64(s.Rate)
}

// medianUsage returns the median of each value.
func medianUsage(all []usage) usage {
	of := func(value func(usage) float64) float64 {
		var values []float64
		for _, u := range all {
			values = append(values, value(u))
		}
		return median(values)
	}
	return usage{
		Server: of(func(u usage) float64 { return u.Server }), ServerIdle: of(func(u usage) float64 { return u.ServerIdle }),
		Edge: of(func(u usage) float64 { return u.Edge }), EdgeIdle: of(func(u usage) float64 { return u.EdgeIdle }),
		Rate: of(func(u usage) float64 { return u.Rate }),
	}
}
