package fault

import "context"

// shardPoolLeak takes every connection to one shard, under load, and keeps it.
func shardPoolLeak(p Patient) Fault {
	var held []func()
	release := func() {
		for _, giveBack := range held {
			giveBack()
		}
		held = nil
	}
	return Fault{
		Name: "shard-pool-leak", Help: "connections are taken from the pool of one shard and never given back",
		On: func(ctx context.Context) error {
			all := p.Service.Shards.Stats()
			for size := all[len(all)-1].Pool.Size; len(held) < size; {
				giveBack, err := p.HoldShard(ctx)
				if err != nil {
					release()
					return err
				}
				held = append(held, giveBack)
			}
			return nil
		},
		Off: func(context.Context) error { release(); return nil },
	}
}
