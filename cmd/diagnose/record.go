package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/regpath/diagnose/playbooks"
)

// recording is a file that a report is about to be written to. It is made
// before the run, so that a path that cannot be written to is known in time,
// and takes its name only when it is whole.
type recording struct {
	file *os.File
	path string
}

func newRecording(path string) (*recording, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		// The recording would take the place of a device, too.
		return nil, fmt.Errorf("record: %s is a folder, a device or the like: want the name of a file", path)
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the link stays
	}
	// Reports quote names of users: CreateTemp makes the file the owner's alone.
	file, err := os.CreateTemp(filepath.Dir(path), ".diagnose-*")
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok { // it names a file that nobody has asked for
			err = cause.Err
		}
		return nil, fmt.Errorf("record: write to the folder of %s: %w", path, err)
	}
	return &recording{file: file, path: path}, nil
}

// keep writes the report and gives the file its name.
func (r *recording) keep(report playbooks.Report) error {
	err := errors.Join(writeReport(r.file, report, "json"), r.file.Close())
	if err == nil {
		err = os.Rename(r.file.Name(), r.path)
	}
	if err != nil {
		return untold{fmt.Errorf("record: %w", errors.Join(err, os.Remove(r.file.Name())))}
	}
	return nil
}

// drop removes a recording that was not kept.
func (r *recording) drop() error {
	if err := errors.Join(r.file.Close(), os.Remove(r.file.Name())); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}
