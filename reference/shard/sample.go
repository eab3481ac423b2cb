package shard

import "math/rand/v2"

// perTable is each table's part of a sample of n, rounded up.
func perTable(n int) int { return (n + SubTables - 1) / SubTables }

// pick chooses up to n of the rows at random. It reorders them.
func pick(rows []Row, n int) []Row {
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows[:min(n, len(rows))]
}
