const { width, height } = document.body.dataset;
mountStage(document.body, Number(width), Number(height), { fills: true });
