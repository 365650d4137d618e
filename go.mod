module github.com/squallhq/squall

go 1.26
