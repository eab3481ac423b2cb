package local

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// StartStandby starts a streaming standby of shard i, which answers look-ups, and returns its DSN. It ends with the servers.
// There can be one of each shard.
func (p *Postgres) StartStandby(ctx context.Context, i int) (dsn string, err error) {
	primary := p.shards[i]
	data := primary.data + "-standby"
	s := &postmaster{binary: primary.binary, as: primary.as, data: data, log: data + ".log", durable: primary.durable}
	backup := exec.Command(filepath.Join(filepath.Dir(primary.binary), "pg_basebackup"), "-D", s.data, "-d", primary.dsn(), //nolint:noctx // run stops it
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
	backup.Dir, backup.Env = p.folder.path, environment()
	if err := run(ctx, backup, s.as, s.log); err != nil {
		return "", fmt.Errorf("copy shard %d: %w", i, err)
	}
	if err := s.startAnywhere(ctx); err != nil {
		s.close()
		return "", fmt.Errorf("start the standby of shard %d: %w", i, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standbys = append(p.standbys, s)
	return s.dsn(), nil
}

// Demote restarts shard i as a standby that follows nobody, as an old primary is after a failover that its clients have not
// heard of: it answers look-ups and refuses writes.
func (p *Postgres) Demote(ctx context.Context, i int) error {
	s := p.shards[i]
	mark := exec.Command("touch", filepath.Join(s.data, "standby.signal")) //nolint:noctx // run stops it
	mark.Dir, mark.Env = p.folder.path, environment()
	if err := run(ctx, mark, s.as, s.data+"-demote.log"); err != nil {
		return fmt.Errorf("demote shard %d: %w", i, err)
	}
	return p.Restart(ctx, i)
}
