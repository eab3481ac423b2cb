package event

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// redriveBatch is how many dead letters are read at a time.
const redriveBatch = 100

// Redriven tells what has become of the dead letters of a group.
type Redriven struct{ Handled, Left int }

// Redrive gives the events that the group gave up to its handler once more, each once, for when what was wrong has been put
// right. What works leaves the dead-letter stream, what fails stays. The events come after later ones of their names. An
// error is one of Redis, or ctx's; what was done before it is done.
func (c *Consumer) Redrive(ctx context.Context) (Redriven, error) {
	var all Redriven
	for _, shard := range c.o.Shards {
		if err := c.redrive(ctx, newStream(c.o.Redis, shard), &all); err != nil {
			return all, fmt.Errorf("redrive of group %s: %w", c.o.Group, err)
		}
	}
	return all, nil
}

// redrive goes through the letters that a shard has now, oldest first.
func (c *Consumer) redrive(ctx context.Context, s stream, all *Redriven) error {
	newest, err := c.o.Redis.XRevRangeN(ctx, s.dead, "+", "-", 1).Result()
	if err != nil || len(newest) == 0 {
		return failed(err)
	}
	for from := "-"; ; {
		letters, err := c.o.Redis.XRangeN(ctx, s.dead, from, newest[0].ID, redriveBatch).Result()
		if err != nil {
			return failed(err)
		}
		for _, l := range letters {
			if group, _ := l.Values["group"].(string); group != c.o.Group {
				continue
			}
			if err := c.deliver(ctx, l); err != nil {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				all.Left++
				c.failed.Add(1)
				c.o.Failed(fmt.Errorf("group %s, once more: %w", c.o.Group, err))
				continue
			}
			if err := c.o.Redis.XDel(ctx, s.dead, l.ID).Err(); err != nil {
				return failed(err)
			}
			all.Handled++
			c.handled.Add(1)
		}
		if len(letters) < redriveBatch {
			return nil
		}
		last, err := parseEntryID(letters[len(letters)-1].ID)
		if err != nil {
			return err
		}
		from = last.after().String()
	}
}

func (c *Consumer) deliver(ctx context.Context, letter redis.XMessage) error {
	text, ok := letter.Values["event"].(string)
	if !ok {
		return errors.New("the letter holds no event")
	}
	e, err := decode(text)
	if err != nil {
		return err
	}
	return c.handle(ctx, e)
}

// letters counts the dead letters of the shard.
func (s stream) letters(ctx context.Context) (int, error) {
	n, err := s.client.XLen(ctx, s.dead).Result()
	return int(n), failed(err)
}
