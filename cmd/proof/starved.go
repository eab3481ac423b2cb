package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// cpu is how long the threads of a process have run, and have waited for a CPU
// while they could have run. It is the kernel's own count: what the verdict
// client-starved can be held against, whoever it was that took the CPU.
type cpu struct{ ran, waited time.Duration }

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
		fields := bytes.Fields(text)
		if len(fields) < 2 {
			continue
		}
		ran, err1 := strconv.ParseInt(string(fields[0]), 10, 64)
		waited, err2 := strconv.ParseInt(string(fields[1]), 10, 64)
		if err1 == nil && err2 == nil {
			sum.ran += time.Duration(ran)
			sum.waited += time.Duration(waited)
		}
	}
	return sum
}

// starved says that since before more time was spent waiting than running.
func (c cpu) starved(before cpu) bool { return c.waited-before.waited > c.ran-before.ran }
