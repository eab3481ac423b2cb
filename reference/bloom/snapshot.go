package bloom

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	stdhash "hash"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Why a snapshot is not used. Either way the shards have what it lacks: Rebuild
// from them.
var (
	// ErrSnapshotCorrupt says that a file is no whole snapshot: truncated,
	// damaged, or something else altogether.
	ErrSnapshotCorrupt = errors.New("filter snapshot is corrupt")
	// ErrSnapshotForeign says that a snapshot is another program version's, of
	// another hash or for other parameters.
	ErrSnapshotForeign = errors.New("filter snapshot is of another kind")
)

const (
	snapshotMagic   = "regbloom"
	snapshotVersion = 1
	snapshotChunk   = 1 << 16 // words encoded at a time, half a megabyte
	// CatchUpMargin is how much earlier than the snapshot the catching up
	// begins. A name may be committed a while after the time in its row, and
	// the clocks of instances differ.
	CatchUpMargin = time.Minute
)

// snapshotHeader is how a snapshot begins, little-endian. The words of the
// filter follow, then the SHA-256 of everything before it.
type snapshotHeader struct {
	Magic         [8]byte
	Version       uint32
	HashFamily    uint32
	Bits          uint64
	Hashes        uint64
	Capacity      uint64
	Rate          float64
	Generation    uint64
	BuiltAt       int64 // nanoseconds since the Unix epoch
	SavedAt       int64 // when the saving began
	Added         [sources]uint64
	Registrations uint64
}

// size is the length of the whole file that begins with h.
func (h *snapshotHeader) size() int64 {
	return int64(binary.Size(h)) + int64((h.Bits+63)/64*8) + sha256.Size
}

// Save writes the current generation to the file path, in pieces, without
// stopping anybody and without a copy in memory. The file is replaced as a
// whole or not at all, and is on the disk when Save returns. Names that are
// added meanwhile may be in it or not: Restore asks the shards for them.
func (f *Filter) Save(ctx context.Context, path string) error {
	if err := f.save(ctx, path); err != nil {
		return fmt.Errorf("save filter snapshot: %w", err)
	}
	return nil
}

func (f *Filter) save(ctx context.Context, path string) error {
	savedAt := time.Now() // before the first word is read
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	err = f.current.Load().write(ctx, file, savedAt)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (g *generation) write(ctx context.Context, to io.Writer, savedAt time.Time) error {
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(to, sum), snapshotChunk*8)
	h := snapshotHeader{
		Version: snapshotVersion, HashFamily: hashFamily, Bits: g.m, Hashes: g.k,
		Capacity: g.params.Capacity, Rate: g.params.Rate, Generation: g.number,
		BuiltAt: g.builtAt.UnixNano(), SavedAt: savedAt.UnixNano(), Registrations: g.registrations.Load(),
	}
	copy(h.Magic[:], snapshotMagic)
	for i := range g.added {
		h.Added[i] = g.added[i].Load()
	}
	if err := binary.Write(out, binary.LittleEndian, &h); err != nil {
		return err
	}
	var word [8]byte
	for i := range g.words {
		if i%snapshotChunk == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		binary.LittleEndian.PutUint64(word[:], atomic.LoadUint64(&g.words[i]))
		if _, err := out.Write(word[:]); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

// Restore switches to the snapshot in the file path after adding what was
// registered since it was saved, and verifies the result as Rebuild does. The
// generation keeps its number and its accounts. Nothing is changed when it
// fails: with fs.ErrNotExist where there is no snapshot, with
// [ErrSnapshotCorrupt] or [ErrSnapshotForeign] where there is no use in it, or
// with the errors of Rebuild. No more memory is asked for than p.Params need,
// whatever the file says.
func (f *Filter) Restore(ctx context.Context, path string, p Plan) error {
	if err := f.beginRebuild(ctx); err != nil {
		return err
	}
	defer f.endRebuild()
	if err := f.makeRoom(p.Params); err != nil {
		return err
	}
	next, savedAt, err := read(ctx, path, p.Params)
	if err != nil {
		return fmt.Errorf("restore filter snapshot: %w", err)
	}
	return f.replace(ctx, next, p, func(ctx context.Context, _ func(string)) error {
		err := p.From.Since(ctx, savedAt.Add(-CatchUpMargin), func(name string) {
			if h := hash(name); !next.test(h) {
				next.add(h, Build)
			}
		})
		if err != nil {
			return fmt.Errorf("catch up filter generation %d: %w", next.number, err)
		}
		return nil
	})
}

// read returns the generation in the file path, if it is one for p.
func read(ctx context.Context, path string, p Params) (g *generation, savedAt time.Time, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, fmt.Errorf("%w: it is no regular file", ErrSnapshotCorrupt)
	}
	sum := sha256.New()
	raw := bufio.NewReaderSize(file, snapshotChunk*8)
	in := io.TeeReader(raw, sum)
	var h snapshotHeader
	if err := binary.Read(in, binary.LittleEndian, &h); err != nil {
		return nil, time.Time{}, corrupt("read header", err)
	}
	if err := h.check(p, info.Size()); err != nil {
		return nil, time.Time{}, err
	}
	if g, err = newGeneration(h.Generation, p, time.Unix(0, h.BuiltAt)); err != nil {
		return nil, time.Time{}, err
	}
	if err := g.read(ctx, in); err != nil {
		return nil, time.Time{}, err
	}
	if err := checkSum(raw, sum); err != nil {
		return nil, time.Time{}, err
	}
	for i, n := range h.Added {
		g.added[i].Store(n)
	}
	g.registrations.Store(h.Registrations)
	return g, time.Unix(0, h.SavedAt), nil
}

// check holds the header against what is wanted and against the length of the
// file, before anything is allocated for it.
func (h *snapshotHeader) check(p Params, size int64) error {
	m, k, err := p.Size()
	switch {
	case err != nil:
		return err
	case string(h.Magic[:]) != snapshotMagic:
		return fmt.Errorf("%w: it does not begin as one", ErrSnapshotCorrupt)
	case h.Version != snapshotVersion:
		return fmt.Errorf("%w: version %d, want %d", ErrSnapshotForeign, h.Version, snapshotVersion)
	case h.HashFamily != hashFamily:
		return fmt.Errorf("%w: hash family %d, want %d", ErrSnapshotForeign, h.HashFamily, hashFamily)
	case h.Capacity != p.Capacity || h.Rate != p.Rate:
		return fmt.Errorf("%w: for %d names at rate %g, want %d at %g", ErrSnapshotForeign, h.Capacity, h.Rate, p.Capacity, p.Rate)
	case h.Bits != uint64(m) || h.Hashes != uint64(k):
		return fmt.Errorf("%w: %d bits and %d hashes, want %d and %d", ErrSnapshotForeign, h.Bits, h.Hashes, m, k)
	case h.Generation == 0:
		return fmt.Errorf("%w: generation 0 was never filled", ErrSnapshotForeign)
	case size != h.size():
		return fmt.Errorf("%w: it has %d bytes, want %d", ErrSnapshotCorrupt, size, h.size())
	}
	return nil
}

func (g *generation) read(ctx context.Context, in io.Reader) error {
	chunk := make([]byte, min(len(g.words), snapshotChunk)*8)
	for at := 0; at < len(g.words); {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := chunk[:min(len(chunk), (len(g.words)-at)*8)]
		if _, err := io.ReadFull(in, part); err != nil {
			return corrupt("read words", err)
		}
		for ; len(part) > 0; part = part[8:] {
			g.words[at] = binary.LittleEndian.Uint64(part)
			at++
		}
	}
	if tail := g.m & 63; tail != 0 && g.words[len(g.words)-1]>>tail != 0 {
		return fmt.Errorf("%w: bits are set behind the last one", ErrSnapshotCorrupt)
	}
	return nil
}

func checkSum(raw io.Reader, sum stdhash.Hash) error {
	var want [sha256.Size]byte
	if _, err := io.ReadFull(raw, want[:]); err != nil {
		return corrupt("read checksum", err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != want {
		return fmt.Errorf("%w: its checksum is wrong", ErrSnapshotCorrupt)
	}
	return nil
}

// corrupt tells a file that ends early from a disk that cannot be read.
func corrupt(doing string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %s: %w", ErrSnapshotCorrupt, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
