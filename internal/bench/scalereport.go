package bench

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// reportScale writes the measurements, the model, its errors, and the table of large deployments. It returns an error if the model predicts badly.
func reportScale(out io.Writer, load scaleLoad, measured map[size][]usage) error {
	medians := make(map[size]usage)
	for s, rounds := range measured {
		medians[s] = medianUsage(rounds)
	}
	m, err := fitCosts(medians, fitted, load)
	if err != nil {
		return errors.Join(printMeasured(out, load, fitted, medians, measured, nil), err)
	}
	fmt.Fprintf(out, "Measured, and what the model says about the sizes to which it was fitted:\n\n")
	if err := printMeasured(out, load, fitted, medians, measured, &m); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nSizes that were not used for the fit:\n\n")
	if err := printMeasured(out, load, heldOut, medians, measured, &m); err != nil {
		return err
	}
	worst := worstPrediction(m, heldOut, medians, load)
	fmt.Fprintf(out, "\nThe largest error of a prediction is %.0f %%; the bound is %.0f %%.\n\n", 100*worst, 100*predictionBound)
	printModel(out, m)
	fmt.Fprintf(out, "A partition that gets %d chunks per second:\n\n", loadedRate)
	if err := printMeasured(out, load, loaded, medians, measured, nil); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n  servers, R3    %s + %s E for each chunk\n  each edge      %s + %s D\n\n",
		number(m.Loaded.Store), number(m.Loaded.Send), number(m.LoadedEdge.Receive), number(m.LoadedEdge.Deliver))
	if err := printNeeds(out, m); err != nil {
		return err
	}
	if worst > predictionBound {
		return fmt.Errorf("a prediction is wrong by %.0f %%, more than %.0f %%: the table is not reliable", 100*worst, 100*predictionBound)
	}
	return nil
}

// printMeasured writes a line for each size: the median, the rounds and the prediction, for each chunk at the rate of the load.
func printMeasured(out io.Writer, load scaleLoad, all []size, medians map[size]usage, measured map[size][]usage, m *costModel) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "SIZE\tCHUNKS/s\tSERVERS us/chunk\tROUNDS\tMODEL\tERROR\tIDLE us/s\tEDGE us/chunk\tROUNDS\tMODEL\tERROR\tIDLE us/s")
	for _, s := range all {
		var ofServers, ofEdges []float64
		for _, u := range measured[s] {
			server, edge := u.perChunk(s)
			ofServers, ofEdges = append(ofServers, server), append(ofEdges, edge)
		}
		server, edge := medians[s].perChunk(s)
		wantServer, wantEdge := math.NaN(), math.NaN()
		if m != nil {
			wantServer, wantEdge = m.predict(s, load).perChunk(s)
		}
		fmt.Fprintf(tw, "%s\t%.0f\t%s\t%s\t%s\t%s\t%.0f\t%s\t%s\t%s\t%s\t%.0f\n", s, medians[s].Rate,
			number(server), spread(ofServers), number(wantServer), percent(wantServer, server), medians[s].ServerIdle,
			number(edge), spread(ofEdges), number(wantEdge), percent(wantEdge, edge), medians[s].EdgeIdle)
	}
	return tw.Flush()
}

func spread(rounds []float64) string {
	return number(slices.Min(rounds)) + ".." + number(slices.Max(rounds))
}

// percent returns the error of a prediction.
func percent(predicted, measured float64) string {
	if math.IsNaN(predicted) {
		return "-"
	}
	return fmt.Sprintf("%+.0f %%", 100*(predicted-measured)/measured)
}

// worstPrediction returns the largest error of the model for the servers or an edge, as a share of what was measured.
func worstPrediction(m costModel, all []size, medians map[size]usage, load scaleLoad) float64 {
	worst := 0.0
	for _, s := range all {
		server, edge := medians[s].perChunk(s)
		wantServer, wantEdge := m.predict(s, load).perChunk(s)
		worst = max(worst, math.Abs(wantServer-server)/server, math.Abs(wantEdge-edge)/edge)
	}
	return worst
}

func printModel(out io.Writer, m costModel) {
	fmt.Fprintf(out, "Model, in us of processor time; P partitions, E edges that receive a chunk, D readers of it at an edge:\n\n")
	for _, r := range []int{1, 3} {
		c := m.Servers[r]
		fmt.Fprintf(out, "  servers, R%d    %s + %s E + %s P for each chunk, and %.0f + %.0f P + %.0f P E in a second\n",
			r, number(c.Store), number(c.Send), number(c.Partition), c.Idle, c.IdlePartition, c.IdleFeed)
	}
	fmt.Fprintf(out, "  each edge      %s + %s D for each chunk, and %.0f + %.0f P in a second\n\n",
		number(m.Edge.Receive), number(m.Edge.Deliver), m.Edge.Idle, m.Edge.IdlePartition)
}
