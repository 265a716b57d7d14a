module arraybridge

go 1.19
