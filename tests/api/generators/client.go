// SPDX-License-Identifier: Apache-2.0
// client BASE_URL PAGE: a client that openapi-generator made in Go, with Go's own library alone. It compiles only if
// answers and errors are described. Says as JSON what it got.

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"

	"example/parser"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The model of a refusal: the zero value where there is none, or another one.
func refusal[T any](err error) (model T) {
	var refused *parser.GenericOpenAPIError
	if errors.As(err, &refused) {
		model, _ = refused.Model().(T)
	}
	return model
}

func main() {
	configuration := parser.NewConfiguration()
	configuration.Servers = parser.ServerConfigurations{{URL: os.Args[1]}}
	client, background := parser.NewAPIClient(configuration), context.Background()
	parsing, jobs := client.ParsingAPI, client.JobsAPI
	page := base64.StdEncoding.EncodeToString(must(os.ReadFile(os.Args[2])))

	request := parser.NewParseRequest(page)
	request.SetVisualize(false)
	parsed, _, err := parsing.ParseDocument(background).ParseRequest(*request).Execute()
	if err != nil {
		panic(err)
	}
	read := parsed.Result.LayoutParsingResults[0]

	upload := must(os.Open(os.Args[2]))
	submitted, _, err := jobs.SubmitJob(background).Model("PaddleOCR-VL").File(upload).Execute()
	if err != nil {
		panic(err)
	}
	job := submitted.Data.JobId
	events, _, err := jobs.FollowJob(background, job).Execute()
	if err != nil {
		panic(err)
	}
	state, _, err := jobs.GetJob(background, job).Execute()
	if err != nil {
		panic(err)
	}

	_, _, err = parsing.ParseDocument(background).ParseRequest(*parser.NewParseRequest("!!")).Execute()
	refused := refusal[parser.Error](err)
	_, _, err = jobs.GetJob(background, "x").Execute()
	unknown := refusal[parser.JobError](err)

	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"text":   read.Markdown.Text,
		"label":  read.PrunedResult.ParsingResList[0].BlockLabel,
		"events": events,
		"ended":  state.Data.State,
		"error":  refused.ErrorCode,
		"code":   unknown.Code,
	})
}
