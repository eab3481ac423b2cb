package shard

import "context"

// Version asks all shards for their routing tables and returns the newest version. As long as it stays the same, no row
// moves from shard to shard, so that whoever reads one after the other has seen every name.
func (c *Cluster) Version(ctx context.Context) (int, error) {
	all, err := c.stored(ctx)
	if err != nil {
		return 0, err
	}
	newest := 0
	for _, p := range all {
		newest = max(newest, p.table.Version)
	}
	return newest, nil
}
