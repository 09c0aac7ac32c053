package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// responseTimeout is how long a server may take to answer.
const responseTimeout = 2 * time.Second

// getAll prints a line for each URL: the answer, or an error. Each request has a connection of its own.
func getAll(urls []string) error {
	for _, u := range urls {
		text, err := get(u)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(strings.TrimSpace(text))
	}
	return nil
}

// runCurl prints the answer to a request for the last argument, whatever the options are.
func runCurl(args []string) error {
	if len(args) == 0 {
		return errors.New("want a URL as the last argument")
	}
	text, err := get(args[len(args)-1])
	fmt.Print(text)
	return err
}

func get(url string) (string, error) {
	client := http.Client{Timeout: responseTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// answer replies to every packet with a name.
func answer(packets net.PacketConn, name string) error {
	for {
		_, from, err := packets.ReadFrom(make([]byte, 1500))
		if err != nil {
			return err
		}
		if _, err := packets.WriteTo([]byte(name), from); err != nil {
			return err
		}
	}
}

// sendAll prints a line for each address: the answer to a packet, or an error.
func sendAll(addresses []string) error {
	for _, a := range addresses {
		text, err := send(a)
		if err != nil {
			text = "error: " + err.Error()
		}
		fmt.Println(text)
	}
	return nil
}

func send(address string) (string, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(responseTimeout)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte("who?")); err != nil {
		return "", err
	}
	reply := make([]byte, 1500)
	n, err := conn.Read(reply)
	return string(reply[:n]), err
}

// fill allocates megabytes of memory, and frees them at the end.
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

// spin computes for some seconds, and prints the share of a processor that it got, in percent.
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
