package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// cpu is how often the threads of a process were given a CPU, and how long they
// had waited for it while they could have run. It is the kernel's own count: what
// the verdict client-starved can be held against, whoever it was that took the
// CPU.
type cpu struct {
	waited time.Duration
	given  int64
}

// cpuOf is zero where the kernel does not tell, or the process is gone.
func cpuOf(pid int) (sum cpu) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return cpu{}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		fields := bytes.Fields(text) // ran, waited, times
		if len(fields) < 3 {
			continue
		}
		waited, err1 := strconv.ParseInt(string(fields[1]), 10, 64)
		given, err2 := strconv.ParseInt(string(fields[2]), 10, 64)
		if err1 == nil && err2 == nil {
			sum.waited += time.Duration(waited)
			sum.given += given
		}
	}
	return sum
}

// starvedFrom is how long a thread waits each time in a process that is starved:
// five such waits, for a request and the answers that it needs, are the 50 ms from
// which a service does not get the CPU.
const starvedFrom = 10 * time.Millisecond

// starved says whether it was since before.
func (c cpu) starved(before cpu) bool {
	times := c.given - before.given
	return times > 0 && (c.waited-before.waited)/time.Duration(times) >= starvedFrom
}
