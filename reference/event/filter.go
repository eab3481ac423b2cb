package event

import "context"

// FeedFilter adds every name that gets an owner to a filter, through whatever instance it was registered. Each instance
// has a filter and so needs a group of its own, which must be there before the filter's first rebuild reads the shards:
// what is registered during a rebuild then reaches the new filter this way. An Add during a rebuild must count for both
// filters. To add a name twice does no harm.
func FeedFilter(add func(name string)) Handler {
	return func(_ context.Context, e Event) error {
		if e.Type == NameClaimed {
			add(e.Name)
		}
		return nil
	}
}
