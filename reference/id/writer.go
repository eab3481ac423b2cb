package id

// Writer returns the number of the machine that gave out an id, whichever of
// its segments it came from. It is not ok for a number too small to hold a time:
// no generator gave it out.
func Writer(id int64) (machine int, ok bool) {
	if id>>(segmentBits+sequenceBits) <= 0 {
		return 0, false
	}
	return int(id>>sequenceBits) % (1 << segmentBits) % Machines, true
}
