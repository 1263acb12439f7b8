package bench

import (
	"errors"
	"math"
	"slices"
)

// leastSquares returns the coefficients c that minimize the sum of the squares of rows·c - values, with the normal equations. The models have at most three
// coefficients and small, well separated factors, so this needs no library of linear algebra.
func leastSquares(rows [][]float64, values []float64) ([]float64, error) {
	n := len(rows[0])
	m := make([][]float64, n) // the equations, the right side in the last column
	for i := range m {
		m[i] = make([]float64, n+1)
		for k, row := range rows {
			for j := range n {
				m[i][j] += row[i] * row[j]
			}
			m[i][n] += row[i] * values[k]
		}
	}
	for i := range n { // Gauss-Jordan elimination
		pivot := i
		for k := i + 1; k < n; k++ {
			if math.Abs(m[k][i]) > math.Abs(m[pivot][i]) {
				pivot = k
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-12 {
			return nil, errors.New("the measured sizes do not determine the model")
		}
		for k := range n {
			if k == i {
				continue
			}
			by := m[k][i] / m[i][i]
			for j := i; j <= n; j++ {
				m[k][j] -= by * m[i][j]
			}
		}
	}
	c := make([]float64, n)
	for i := range c {
		c[i] = m[i][n] / m[i][i]
	}
	return c, nil
}

// relativeFit is leastSquares of the relative errors, so that a size that costs little counts as much as one that costs much.
func relativeFit(rows [][]float64, values []float64) ([]float64, error) {
	var scaled [][]float64
	var ones []float64
	for i, row := range rows {
		value := values[i]
		if value <= 0 {
			return nil, errors.New("a measured cost is not positive: the rounds are too short or too few for this machine")
		}
		relative := slices.Clone(row)
		for j := range relative {
			relative[j] /= value
		}
		scaled, ones = append(scaled, relative), append(ones, 1)
	}
	return leastSquares(scaled, ones)
}
