package main

import (
	"fmt"
	"strconv"
	"time"
)

// fill takes megabytes of memory, and frees them at the end.
func fill(megabytes string) error {
	count, err := strconv.Atoi(megabytes)
	if err != nil {
		return err
	}
	const page = 4096
	var all [][]byte
	for range count {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += page {
			block[i] = 1
		}
		all = append(all, block)
	}
	fmt.Println("took", len(all), "MB")
	return nil
}

// spin computes for some seconds, and prints the share of a processor that it had, in percent.
func spin(seconds string) error {
	count, err := strconv.Atoi(seconds)
	if err != nil {
		return err
	}
	length := time.Duration(count) * time.Second
	for end := time.Now().Add(length); time.Now().Before(end); {
	}
	used, err := processorTime()
	fmt.Println(int64(used * 100 / length))
	return err
}
